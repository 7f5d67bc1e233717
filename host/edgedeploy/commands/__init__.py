# SPDX-License-Identifier: Apache-2.0
"""One module per command. Its ``command`` function is the command; its docstring is the help."""
