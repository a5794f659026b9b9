{{ config(location=env_var('GRAVELER_URL') ~ '/output/' ~ var('hour') ~ '/delays.parquet') }}
select origin, count(*) as flights, avg(dep_delay) as mean_delay
from {{ ref('departures') }}
group by origin
