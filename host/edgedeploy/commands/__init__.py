# SPDX-License-Identifier: Apache-2.0
"""One module per command: its ``command`` function, or a ``group`` of several. Their docstrings are the help."""
