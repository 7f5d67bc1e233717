# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of support tables: small predicates on one op, found by name.

Every module of this package is imported, so a new predicate is one decorated function in any of them.
"""

import importlib
import pkgutil

from edgedeploy_partitioner.support.predicates.registry import PREDICATES as PREDICATES
from edgedeploy_partitioner.support.predicates.registry import Predicate as Predicate
from edgedeploy_partitioner.support.predicates.registry import find as find

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["PREDICATES", "Predicate", "find"]
