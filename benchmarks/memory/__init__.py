# SPDX-License-Identifier: Apache-2.0
"""Predicted against published and measured memory."""
