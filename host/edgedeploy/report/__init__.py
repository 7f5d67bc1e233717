# SPDX-License-Identifier: Apache-2.0
"""What people read: functions from values to text."""
