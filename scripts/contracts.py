"""The kind of import contract that also holds for rooms that are not built yet."""

from collections.abc import Iterable

from grimp import ImportGraph
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.domain.contract import ContractCheck
from importlinter.domain.imports import ModuleExpression


class RoomsContract(ForbiddenContract):
    """A `forbidden` contract that passes over those of its rooms which do not exist.

    The plain one refuses to run when a module it names is missing, so a rule about tomorrow's room could
    only be written tomorrow. That the names are rooms at all is checked by `tests/test_tidy.py`.
    """

    type_name = "rooms"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check the imports between the rooms that are there."""

        def present(modules: Iterable[ModuleExpression]) -> set[ModuleExpression]:
            return {m for m in modules if not str(m).startswith("aios.") or str(m) in graph.modules}

        vars(self)["source_modules"] = present(vars(self)["source_modules"])
        vars(self)["forbidden_modules"] = present(vars(self)["forbidden_modules"])
        return super().check(graph, verbose)
