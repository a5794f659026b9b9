-- every departure is counted once
select departures.total, delays.total as counted
from (select count(*) as total from {{ ref('departures') }}) as departures,
     (select sum(flights) as total from {{ ref('delays') }}) as delays
where departures.total <> delays.total
