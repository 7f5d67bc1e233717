# SPDX-License-Identifier: Apache-2.0
"""Running a model on a device: a session with its agent, what it measured, and how far that can be trusted."""
