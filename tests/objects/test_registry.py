import pytest

from graveler.errors import InvalidInputError
from graveler.objects.local import LocalStore
from graveler.objects.registry import open_store
from tests.harness.programs import output_of


def test_a_name_in_memory_is_one_store_for_the_whole_process():
    open_store("mem://registry-test").put("a", b"1")
    assert open_store("mem://registry-test").get("a") == b"1"
    assert list(open_store("mem://registry-test-2").list()) == []
    assert open_store("mem://registry-test").uri("a") == "mem://registry-test/a"


def test_a_folder_may_be_given_as_uri_or_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roots = {open_store(given).root for given in (f"file://{tmp_path}", str(tmp_path), ".", "./")}
    assert roots == {f"file://{tmp_path}"}
    assert isinstance(open_store("file:///"), LocalStore)
    assert open_store("file:///").uri("tmp") == "file:///tmp"


@pytest.mark.parametrize("uri", ["gs://bucket", "http://host/x", "S3://bucket"])
def test_an_unknown_scheme_is_told_the_known_ones(uri):
    with pytest.raises(InvalidInputError, match=r"file:.*mem:.*s3:"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["mem://", "file://host/x", "file://", "s3://", "s3:///x"])
def test_an_incomplete_uri_is_refused(uri):
    with pytest.raises(InvalidInputError, match="give"):
        open_store(uri)


@pytest.mark.parametrize("uri", ["s3://bucket/../x", "s3://bucket/a//b"])
def test_a_prefix_is_checked_like_a_key(uri):
    with pytest.raises(InvalidInputError, match="cannot be an object's key"):
        open_store(uri)


@pytest.mark.parametrize(
    ("uri", "options", "told"),
    [
        ("mem://x", {"region": "r"}, "takes no options"),
        ("file:///x", {"region": "r"}, "takes no options"),
        ("s3://bucket", {"endpoint": "e"}, r"no options \['endpoint'\].*endpoint_url"),
        ("s3://bucket", {"path_style": "yes"}, "'true' or 'false'"),
        ("s3://bucket", {"endpoint_url": "nonsense"}, "nonsense"),
    ],
)
def test_an_option_that_means_nothing_is_refused(uri, options, told):
    with pytest.raises(InvalidInputError, match=told):
        open_store(uri, options)


def test_without_boto3_the_error_says_what_to_install():
    assert "pip install 'graveler[s3]'" in output_of("objects.programs.without_boto3")


def test_boto3_loads_with_the_first_s3_store_only(tmp_path):
    assert output_of("objects.programs.stores_without_s3", tmp_path) == "[]\n"
