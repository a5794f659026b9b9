"""A forked child opens connections of its own: ``URI OPTIONS``."""

import json
import os
import sys

from graveler.objects.registry import open_store
from graveler.objects.s3 import S3Store

store = open_store(sys.argv[1], json.loads(sys.argv[2]))
assert isinstance(store, S3Store)
store.put("parent", b"1")
child = os.fork()
if not child:
    parents = store._client._client
    store.put("child", store.get("parent"))
    os._exit(7 if store._client._client is not parents else 8)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert store.get("child") == b"1"
