"""A lake with its objects on S3, where each range of bytes is one read."""

import pandas as pd
import pytest

from graveler.fs import GravelerFileSystem, close_lakes, storage_options, url
from graveler.lake import open as open_lake
from graveler.lake.factory import write_default_config


@pytest.mark.service("s3")
def test_tables_go_to_and_come_from_s3(tmp_path, s3_bucket, s3_options):
    file = write_default_config(tmp_path / "lake", storage_uri=f"s3://{s3_bucket}/fs")
    options = "".join(f'{name} = "{value}"\n' for name, value in s3_options.items())
    file.write_text(f"{file.read_text('utf-8')}\n[s3]\n{options}", "utf-8")
    frame = pd.DataFrame({"hour": ["05:00", "06:00"], "flight": [1, 2]})
    with open_lake(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("flights")
        with repo.run("hour 05") as run:
            frame.to_parquet(url(run, "table.parquet"), storage_options=storage_options(run))
        fs = GravelerFileSystem(lake.location)
        read = pd.read_parquet(
            url(repo.ref("main"), "table.parquet"), storage_options={"lake": lake.location}
        )
        pd.testing.assert_frame_equal(read, frame)
        path = "flights/main/table.parquet"
        assert fs.info(path)["address"].startswith(f"s3://{s3_bucket}/fs/flights/data/")
        assert fs.cat_ranges([path, path], [0, -4], [4, None]) == [b"PAR1", b"PAR1"]
    close_lakes()
