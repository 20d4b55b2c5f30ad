"""Commands whose modules are imported when they are asked for: a run need not wait for what
benchmarks and servers need."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class LazyGroup(TyperGroup):
    """A group of commands of which some lie elsewhere."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Name → module. Its ``app`` is the group or the one command with that name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self.elsewhere]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (module := self.elsewhere.get(cmd_name)) is None:
            return super().get_command(ctx, cmd_name)
        found = typer.main.get_command(importlib.import_module(module).app)
        found.name = cmd_name  # else the help lists a single command by the name of its function
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            # Names the command that was probably meant.
            self.commands = {
                **self.commands,
                **{name: self.get_command(ctx, name) for name in self.elsewhere},
            }
        return super().resolve_command(ctx, args)
