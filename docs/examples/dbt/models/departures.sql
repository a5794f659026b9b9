{{ config(location=env_var('GRAVELER_URL') ~ '/output/' ~ var('hour') ~ '/departures.parquet') }}
select carrier, flight, origin, dep_delay
from {{ source('landing', 'flights') }}
where dep_delay is not null
