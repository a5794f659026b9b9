"""Opens stores that are not on S3, and prints which modules of boto3 that loads."""

import sys

from graveler.objects.registry import open_store

open_store("mem://x")
open_store(sys.argv[1])
print(sorted({"boto3", "botocore"} & set(sys.modules)))
