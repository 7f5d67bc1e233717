# SPDX-License-Identifier: Apache-2.0
"""The protocol between host and agent: agent.proto, and what ``protos/generate.py`` makes of it."""

PROTOCOL = 2
"""Raised when an agent and a host of different numbers would not understand each other."""
