"""Defines who may call which endpoint of the API. `docs/api.md` has the same table; `make docs` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """What a caller may do. Each of anyone, view, operate, admin and owner includes the ones before."""

    ANYONE = "anyone"
    """Ask whether the supervisor is well, without a token."""
    VIEW = "view"
    """See the queue, jobs, workers, folders and history."""
    OPERATE = "operate"
    """Also upload files and control jobs, workers and the queue."""
    ADMIN = "admin"
    """Also manage tokens, delete videos and the history, change the log level and shut down."""
    WORKER = "worker"
    """Encode jobs in the name of one worker, and nothing else."""
    JOIN = "join"
    """Get tokens of the role worker for workers that join, and nothing else."""
    OWNER = "owner"
    """Also name paths of this machine. Only callers on the socket have it; no token does."""


TOKEN_ACTOR = "token:"
"""In events, the actor is this and the name of the token."""
_RANKS = (Role.ANYONE, Role.VIEW, Role.OPERATE, Role.ADMIN, Role.OWNER)
GRANTABLE = (Role.VIEW, Role.OPERATE, Role.ADMIN, Role.WORKER, Role.JOIN)
"""Roles of tokens."""


def allows(role: Role, needed: Role) -> bool:
    """Whether a caller with a role may call an endpoint that needs another."""
    if {role, needed} & {Role.WORKER, Role.JOIN}:
        return needed in (role, Role.ANYONE)
    return _RANKS.index(role) >= _RANKS.index(needed)


ROLE_OF: Mapping[str, Role] = MappingProxyType(
    {
        "GET /health": Role.ANYONE,
        "GET /ready": Role.ANYONE,
        "GET /metrics": Role.VIEW,
        "GET /v1/status": Role.VIEW,
        "GET /v1/jobs": Role.VIEW,
        "GET /v1/jobs/{job}": Role.VIEW,
        "GET /v1/jobs/{job}/log": Role.VIEW,
        "GET /v1/jobs/{job}/picture": Role.VIEW,
        "GET /v1/jobs/{job}/bits": Role.VIEW,
        "GET /v1/batches/{batch}": Role.VIEW,
        "GET /v1/videos": Role.VIEW,
        "GET /v1/videos/{video}": Role.VIEW,
        "GET /v1/workers": Role.VIEW,
        "GET /v1/folders": Role.VIEW,
        "GET /v1/events": Role.VIEW,
        "GET /v1/events/stream": Role.VIEW,
        "GET /v1/profiles": Role.VIEW,
        "GET /v1/doctor": Role.VIEW,
        "GET /v1/alerts": Role.VIEW,
        "GET /v1/stats": Role.VIEW,
        "GET /v1/wall": Role.VIEW,
        "GET /v1/load": Role.VIEW,
        "POST /v1/jobs/forecast": Role.VIEW,
        "POST /v1/jobs/actions": Role.OPERATE,
        "POST /v1/videos/{video}/upload": Role.OPERATE,
        "POST /v1/jobs/bulk": Role.OPERATE,
        "POST /v1/undo": Role.OPERATE,
        "POST /v1/queue/pause": Role.OPERATE,
        "POST /v1/queue/resume": Role.OPERATE,
        "POST /v1/queue/retry": Role.OPERATE,
        "POST /v1/workers/{name}/{verb}": Role.OPERATE,
        "OPTIONS /v1/uploads": Role.OPERATE,
        "POST /v1/uploads": Role.OPERATE,
        "HEAD /v1/uploads/{upload}": Role.OPERATE,
        "GET /v1/uploads/{upload}": Role.OPERATE,
        "PATCH /v1/uploads/{upload}": Role.OPERATE,
        "DELETE /v1/uploads/{upload}": Role.OPERATE,
        "POST /v1/queue/clear": Role.ADMIN,
        "DELETE /v1/videos/{video}": Role.ADMIN,
        "POST /v1/videos/{video}/undelete": Role.ADMIN,
        "POST /v1/workers": Role.ADMIN,
        "POST /v1/workers/tokens": Role.ADMIN,
        "DELETE /v1/workers/{name}": Role.ADMIN,
        "GET /v1/tokens": Role.ADMIN,
        "POST /v1/tokens": Role.ADMIN,
        "DELETE /v1/tokens/{name}": Role.ADMIN,
        "PUT /v1/log-level": Role.ADMIN,
        "POST /v1/alerts/test": Role.ADMIN,
        "POST /v1/shutdown": Role.ADMIN,
        "POST /v1/videos": Role.OWNER,
        "POST /v1/videos/relocate": Role.OWNER,
        "POST /v1/fetches": Role.OWNER,
        "POST /v1/folders": Role.OWNER,
        "POST /v1/folders/preview": Role.OWNER,
        "PATCH /v1/folders/{folder}": Role.OWNER,
        "DELETE /v1/folders/{folder}": Role.OWNER,
        "GET /v1/settings": Role.OWNER,
        "POST /v1/backup": Role.OWNER,
        "POST /v1/commands": Role.OWNER,
        "POST /v1/commands/leave": Role.OWNER,
        "POST /v1/worker/join": Role.JOIN,
        "POST /v1/worker/register": Role.WORKER,
        "POST /v1/worker/leave": Role.WORKER,
        "POST /v1/worker/kept": Role.WORKER,
        "POST /v1/worker/claim": Role.WORKER,
        "POST /v1/worker/tested": Role.WORKER,
        "POST /v1/worker/heartbeat": Role.WORKER,
        "POST /v1/worker/jobs/{job}/progress": Role.WORKER,
        "POST /v1/worker/jobs/{job}/complete": Role.WORKER,
        "POST /v1/worker/jobs/{job}/fail": Role.WORKER,
        "POST /v1/worker/jobs/{job}/range": Role.WORKER,
        "POST /v1/worker/jobs/{job}/release": Role.WORKER,
        "GET /v1/worker/jobs/{job}/inputs": Role.WORKER,
        "GET /v1/worker/jobs/{job}/source": Role.WORKER,
        "GET /v1/worker/jobs/{job}/store": Role.WORKER,
        "GET /v1/worker/jobs/{job}/store/names": Role.WORKER,
        "PUT /v1/worker/jobs/{job}/store": Role.WORKER,
        "POST /v1/worker/jobs/{job}/store/remove": Role.WORKER,
        "PUT /v1/worker/jobs/{job}/log": Role.WORKER,
    }
)
"""The role that an endpoint needs, by method and path."""
OPEN = frozenset(call for call, role in ROLE_OF.items() if role is Role.ANYONE)
"""The calls that need no token. Their answers have no names and no paths."""
