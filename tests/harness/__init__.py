"""What tests of several folders share.

* ``worlds``: a lake on stores in memory, opened as often as a test has processes; a fault or
  another process at each point of an operation.
* ``gc_lakes``, ``histories``, ``disk``: lakes with garbage, with a history, on a failing disk.
* ``counting``, ``statements``: a key-value store that counts its calls; the statements of operations.
* ``programs``: programs in processes of their own, from the folders of that name.
* ``workers``, ``kv_jobs``: processes that work on a key-value store beside the test.
* ``commands``: the command line, called in the process of the test.
* ``servers``: PostgreSQL, MariaDB, S3 and DynamoDB servers, started on first use.
* ``wires``: a connection to a server that breaks where a test says.
* ``git``, ``merge_model``: git and a plain model, to compare histories and merges with.
* ``judges``, ``accounts``, ``hostile``: gates of ingestion, what became of each file, and gates
  that misbehave.

Nothing here is a test. No test module imports another one.
"""
