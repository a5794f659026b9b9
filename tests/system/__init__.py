"""The system tests of the provider, in the layout of Airflow's providers."""
