"""The tree of commands; a command's module is imported when the command is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from tqstudio.cli.terminal import help_pages, options, wrong_usage
from tqstudio.errors import ErrorCode, TqError

# Name → "module:function" below `commands` or in a wing, or a group: (its help text, the same for its
# commands).
CommandTree = Mapping[str, "str | tuple[str, Mapping[str, str]]"]

COMMANDS: CommandTree = {
    "demo": "studio.demo:demo",
    "up": "studio.up_down:up",
    "down": "studio.up_down:down",
    "log-level": "studio.up_down:log_level",
    "status": "studio.status:status",
    "add": "jobs.add:add",
    "process": "jobs.process:process",
    "plan": "jobs.plan:plan",
    "open": "wings.page.cli:open_page",
    "embed": "wings.page.cli:embed",
    "queue": (
        "Act on the whole queue: status, process, retry, clear, pause.",
        {
            "status": "jobs.queue:status",
            "process": "jobs.queue:process",
            "retry": "jobs.queue:retry",
            "clear": "jobs.queue:clear",
            "pause": "jobs.queue:pause",
            "resume": "jobs.queue:resume",
        },
    ),
    "job": (
        "List, show and control single jobs.",
        {
            "list": "jobs.show:list_jobs",
            "show": "jobs.show:show",
            "log": "jobs.show:log",
            "command": "jobs.show:command",
            "pause": "jobs.change:pause",
            "resume": "jobs.change:resume",
            "cancel": "jobs.change:cancel",
            "retry": "jobs.change:retry",
            "change": "jobs.change:change",
            "retranscode": "jobs.change:retranscode",
            "restart": "jobs.change:restart",
            "priority": "jobs.change:priority",
            "delete": "jobs.change:delete",
            "undelete": "jobs.change:undelete",
        },
    ),
    "video": (
        "List videos and ladders; delete, bring back, relocate and upload them.",
        {
            "list": "jobs.videos:list_videos",
            "delete": "jobs.videos:delete",
            "undelete": "jobs.videos:undelete",
            "relocate": "jobs.videos:relocate",
            "upload": "jobs.videos:upload",
        },
    ),
    "undo": "jobs.change:undo",
    "events": "studio.events:events",
    "stats": "wings.statistics.cli:stats",
    "wall": "studio.ui:wall",
    "folder": (
        "Manage drop folders; their videos are transcoded automatically.",
        {
            "add": "studio.folders:add",
            "list": "studio.folders:list_folders",
            "edit": "studio.folders:edit",
            "remove": "studio.folders:remove",
        },
    ),
    "worker": (
        "List, add, remove and run workers; also for another machine's studio.",
        {
            "list": "studio.workers:list_workers",
            "add": "studio.workers:add",
            "remove": "studio.workers:remove",
            "enable": "studio.workers:enable",
            "disable": "studio.workers:disable",
            "drain": "studio.workers:drain",
            "run": "wings.remote.cli:run",
        },
    ),
    "profile": (
        "Show, check and create encoding profiles.",
        {
            "list": "studio.profiles:list_profiles",
            "show": "studio.profiles:show",
            "check": "studio.profiles:check",
            "new": "studio.profiles:new",
        },
    ),
    "token": (
        "Manage tokens of callers from the network.",
        {
            "create": "studio.tokens:create",
            "list": "studio.tokens:list_tokens",
            "revoke": "studio.tokens:revoke",
        },
    ),
    "service": (
        "Run the supervisor as a systemd service.",
        {
            "install": "studio.service:install",
            "status": "studio.service:status",
            "uninstall": "studio.service:uninstall",
        },
    ),
    "alert": (
        "List alerts, and test their channels.",
        {"list": "wings.alerts.cli:list_alerts", "test": "wings.alerts.cli:alert_test"},
    ),
    "verify": "jobs.verify:verify",
    "quality": "wings.quality.cli:quality",
    "database": (
        "Move the queue to or from PostgreSQL.",
        {"copy": "studio.database:copy"},
    ),
    "backup": "studio.database:backup",
    "doctor": "studio.doctor:doctor",
    "keys": "studio.ui:keys",
    "drill": "studio.drill:drill",
}

LOCAL = frozenset(
    {
        "studio.demo:demo",
        "studio.up_down:up",
        "studio.up_down:down",
        "jobs.process:process",
        "jobs.plan:plan",
        "jobs.queue:process",
        "studio.folders:add",
        "studio.folders:edit",
        "studio.folders:remove",
        "studio.profiles:show",
        "studio.profiles:check",
        "studio.profiles:new",
        "studio.service:status",
        "studio.service:uninstall",
        "jobs.verify:verify",
        "wings.page.cli:open_page",
        "wings.page.cli:embed",
        "wings.quality.cli:quality",
        "studio.database:backup",
        "studio.database:copy",
        "studio.doctor:doctor",
        "studio.drill:drill",
    }
)
"""Commands that need the files of the studio's machine, so they cannot be used with `--connect`."""
# Commands whose arguments may begin with a dash: `job priority 7 -5`.
DASHED_ARGUMENTS = frozenset({"jobs.change:priority"})


class _Page:
    """The help of a command or group."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        help_pages.write(self, ctx, formatter)

    def get_short_help_str(self, limit: int = 0) -> str:
        del limit
        return help_pages.summary(self)


class _Command(_Page, TyperCommand):
    pass


class _Group(_Page, TyperGroup):
    """Builds a command on first access."""

    tree: CommandTree

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find a command; `help job list` is `job list --help`, and `help` alone the page of the group."""
        if args[0] == "help":
            args = args[1:] if ctx.resilient_parsing else [*args[1:], "--help"]
            if not args:
                return None, None, []
            if args == ["--help"]:
                typer.echo(ctx.get_help())
                ctx.exit()
        if not ctx.resilient_parsing and args[0] not in self.tree:
            raise wrong_usage.no_command(ctx, args[0], list(self.tree))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.tree and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _build(cmd_name, self.tree[cmd_name])
        return super().get_command(ctx, cmd_name)


def _build(name: str, command: str | tuple[str, Mapping[str, str]]) -> Any:
    if isinstance(command, tuple):
        about, tree = command
        return _group(name, about, tree, _help_alone, add_completion=False)
    callback = function_of(command)
    # The UI starts without them.
    from tqstudio.cli.terminal import completion

    if command in LOCAL:
        callback = _refused_elsewhere(callback)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = {"ignore_unknown_options": True} if command in DASHED_ARGUMENTS else {}
    app.command(name, cls=_Command, context_settings=settings)(callback)
    built = typer.main.get_command(app)
    completion.complete(built)
    return built


def function_of(command: str) -> Callable[..., int]:
    """Import the function of a command, as the tree names it."""
    module, _, function = command.partition(":")
    below = "tqstudio" if module.startswith("wings.") else "tqstudio.cli.commands"
    found: Callable[..., int] = getattr(import_module(f"{below}.{module}"), function)
    return found


def _refused_elsewhere(command: Callable[..., int]) -> Callable[..., int]:
    """A command that is refused with `--connect`."""

    @wraps(command)
    def checked(*arguments: Any, **options: Any) -> int:
        if os.environ.get("TQSTUDIO_CONNECT"):
            raise TqError(
                ErrorCode.BAD_REQUEST,
                "this command uses the files of the machine that the studio runs on",
                "run it there, without --connect and TQSTUDIO_CONNECT",
            )
        return command(*arguments, **options)

    return checked


def _group(
    name: str | None, about: str, tree: CommandTree, alone: Callable[..., Any], **more: Any
) -> TyperGroup:
    app = typer.Typer(
        name=name,
        help=about,
        cls=_Group,
        context_settings=help_pages.SETTINGS if name == "tqstudio" else {},
        rich_markup_mode=None,
        invoke_without_command=True,
        **more,
    )
    app.callback(help=about)(alone)
    group = cast(_Group, typer.main.get_command(app))
    group.tree, group.commands = tree, cast(Any, dict.fromkeys(tree))
    return group


def _help_alone(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        from tqstudio import __version__

        typer.echo(f"tqstudio {__version__}")
        raise typer.Exit


def _root(
    ctx: typer.Context,
    home: str = typer.Option(
        "", metavar="PATH", help="Folder of the supervisor's files; overrides TQSTUDIO_HOME."
    ),
    connect: str = typer.Option(
        "",
        metavar="URL[,URL]|NAME",
        help="Use the studio at a URL, the first that answers, or at one of connections.toml; overrides"
        " TQSTUDIO_CONNECT.",
    ),
    token_file: str = typer.Option(
        "", metavar="FILE", help="File with the token for it; overrides TQSTUDIO_TOKEN_FILE."
    ),
    ca: str = typer.Option(
        "", metavar="FILE", help="Its certificate, if no known authority signed it; overrides TQSTUDIO_CA."
    ),
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_version, help="Print the version."
    ),
) -> int:
    del version
    options.use_studio(home, connect, token_file, ca)
    if ctx.invoked_subcommand is not None:
        return 0
    from tqstudio.cli.commands.studio.ui import open_screen

    return open_screen()


def root_command() -> TyperGroup:
    """Build the root command."""
    about = "Turn videos into adaptive HLS ladders.\n\nWithout a command the terminal UI opens."
    return _group("tqstudio", about, COMMANDS, _root, add_completion=True)
