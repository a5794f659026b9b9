# The weather of an hour, in pandas. The IO manager stores the results of assets in the lake.
import dagster as dg
import pandas as pd

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from graveler.config import environment

hours = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2014-01-01-00:00")
lake = GravelerResource(lake=environment("GRAVELER_LAKE", "demo-lake/lake"), repository="flights")
frames = GravelerIOManager(graveler=lake, prefix="weather/")


@dg.asset(partitions_def=hours)
def observed(context: dg.AssetExecutionContext) -> pd.DataFrame:
    hour = f"{context.partition_time_window.start:%Y/%m/%d/%H-%M}"
    return pd.read_csv(f"{environment('FLIGHTS_LANDING', 'demo-lake/landing')}/{hour}/weather.csv")


@dg.asset(partitions_def=hours)
def coldest(observed: pd.DataFrame) -> pd.DataFrame:
    return observed.nsmallest(1, "temp")[["origin", "temp"]]


assets = [observed, coldest]
defs = graveler_definitions(assets, lake, partitions_def=hours, io_manager=frames, name="weather")
