"""Helpers that tests of several folders share.

* ``worlds``: a lake on stores in memory that any number of processes may open; a fault or another
  process at each point of an operation.
* ``gc_lakes``, ``histories``, ``disk``: lakes with garbage, with a history, on a failing disk.
* ``counting``, ``statements``: a key-value store that counts its calls; the statements of operations.
* ``programs``: programs in separate processes, from the folders of that name.
* ``workers``, ``kv_jobs``: processes that work on a key-value store during the test.
* ``commands``: the command line, called in the process of the test.
* ``servers``: PostgreSQL, MariaDB, S3 and DynamoDB servers, started on first use.
* ``wires``: a connection to a server that a test can break.
* ``git``, ``merge_model``: git and a plain model, to compare histories and merges with.
* ``judges``, ``accounts``, ``hostile``: gates of ingestion, the places of acknowledged files, and
  gates that misbehave.

No module here is a test. No test module imports another one.
"""
