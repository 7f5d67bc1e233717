# SPDX-License-Identifier: Apache-2.0
"""The model file: bytes to frozen values, and what can be said of it from the file alone."""
