# SPDX-License-Identifier: Apache-2.0
"""What runs on the board. Python 3.9, nothing of the host packages."""

__version__ = "0.1.0"
