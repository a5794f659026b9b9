"""Files of a lake for Airflow: the paths of ``ObjectStoragePath``, and the values of XComs."""
