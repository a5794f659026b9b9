"""``graveler mcp``: the lake for an agent, over the Model Context Protocol."""

import signal

from graveler.cli.arguments import read_duration
from graveler.cli.session import Session
from graveler.cli.verb import verb
from graveler.config import load_config
from graveler.errors import MissingDependencyError


@verb("mcp")
def _mcp(session: Session, *, base: str = "", into: str = "", ttl: str = "7d") -> None:
    """Serve a repository to an agent, over standard input and output (Model Context Protocol).

    The agent reads everything, and writes on a branch of this session, which its first write makes. It
    publishes only if graveler.toml allows it: publish = ["REPOSITORY:BRANCH"] below [agents]. The session
    ends with its input, and by Ctrl-C or SIGTERM.

    Args:
        base (REF): The ref that its branch starts from; else the default branch.
        into (BRANCH): The branch that a publish moves; else the default branch.
        ttl (TIME): Time to live of its branch, as in 14d: then `maintain` deletes it.
    """
    try:
        from graveler.agents.server import serve
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"graveler mcp needs the package {error.name}: `pip install 'graveler[mcp]'`"
        ) from None
    from graveler.agents.session import AgentSession

    length = read_duration("--ttl", ttl)
    allowed = load_config(session.lake.location).agents_publish
    at_work = AgentSession(session.repository, base, into, length, allowed)
    # what waits for input does not see Ctrl-C; each call may end at any point, as in a crash
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(session.lake, at_work)
