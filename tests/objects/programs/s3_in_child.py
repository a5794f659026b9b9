"""A forked child opens connections of its own, also where the first try fails: ``URI OPTIONS``."""

import json
import os
import sys
from typing import Any

import boto3

from graveler.objects.registry import open_store
from graveler.objects.s3 import S3Store

module: Any = boto3
connect = module.client
for refused in (False, True):
    store = open_store(sys.argv[1], json.loads(sys.argv[2]))
    assert isinstance(store, S3Store)
    store.put("parent", b"1")
    child = os.fork()
    if not child:
        parents = store._client._client
        if refused:
            module.client = None
            try:
                store.put("child", b"1")
            except TypeError:
                module.client = connect
        store.put("child", store.get("parent"))
        os._exit(7 if store._client._client is not parents else 8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert store.get("child") == b"1"
