"""Spark on S3 without the jar of its committer."""


def test_without_the_cloud_jar_spark_renames(session, jars, tmp_path, append_twice, committer):
    for jar in jars.glob("*.jar"):
        if "hadoop-cloud" not in jar.name:
            (tmp_path / jar.name).symlink_to(jar)
    with session(tmp_path) as spark:
        append_twice(spark)
        assert committer(spark) is None
