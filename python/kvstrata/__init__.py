"""KVStrata: a client of the tiered prefix-cache storage daemon for LLM servers.

    import kvstrata

    with kvstrata.connect() as client:
        namespace = client.register(kvstrata.ModelDescriptor(...))
        namespace.put(tokens, blocks)
        with namespace.get(tokens) as found: ...

See doc/client-python.md; :class:`Client` blocks, :class:`AsyncClient` is for asyncio.
"""

from kvstrata.aio import AsyncClient
from kvstrata.aio_namespace import AsyncHeldBlocks, AsyncLease, AsyncNamespace, AsyncStaging
from kvstrata.client import Client, connect
from kvstrata.errors import (
    Busy,
    Cancelled,
    Conflict,
    ConnectionLost,
    Corrupt,
    DeadlineExceeded,
    EpochChanged,
    Error,
    ErrorKind,
    Exists,
    Internal,
    InvalidArgument,
    IoError,
    LeaseExpired,
    Locked,
    NotFound,
    OutOfMemory,
    OutOfSpace,
    PermissionDenied,
    ProtocolError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from kvstrata.lease import HeldBlocks, Lease
from kvstrata.model import (
    DType,
    GroupKind,
    LayerGroup,
    Layout,
    ModelDescriptor,
    NamespaceSpec,
    Range,
    Shard,
)
from kvstrata.namespace import Namespace, Staging
from kvstrata.results import (
    Changed,
    Event,
    Explanation,
    Page,
    Present,
    PutResult,
    Removal,
    ServerInfo,
    Verified,
)
from kvstrata.views import Blocks, BlockView, LeaseHandle

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncHeldBlocks",
    "AsyncLease",
    "AsyncNamespace",
    "AsyncStaging",
    "BlockView",
    "Blocks",
    "Busy",
    "Cancelled",
    "Changed",
    "Client",
    "Conflict",
    "ConnectionLost",
    "Corrupt",
    "DType",
    "DeadlineExceeded",
    "EpochChanged",
    "Error",
    "ErrorKind",
    "Event",
    "Exists",
    "Explanation",
    "GroupKind",
    "HeldBlocks",
    "Internal",
    "InvalidArgument",
    "IoError",
    "LayerGroup",
    "Layout",
    "Lease",
    "LeaseExpired",
    "LeaseHandle",
    "Locked",
    "ModelDescriptor",
    "Namespace",
    "NamespaceSpec",
    "NotFound",
    "OutOfMemory",
    "OutOfSpace",
    "Page",
    "PermissionDenied",
    "Present",
    "ProtocolError",
    "PutResult",
    "Range",
    "Removal",
    "ServerInfo",
    "Shard",
    "Staging",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "Verified",
    "connect",
]
