"""A DAG of two tasks that does not use graveler."""

from airflow.sdk import dag, task


@dag(schedule=None)
def plain():
    @task
    def first(): ...

    @task
    def second(): ...

    first() >> second()


plain()
