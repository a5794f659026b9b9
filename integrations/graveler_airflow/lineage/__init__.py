"""Where commits come from and lead to: the task that made one, the pages that show one."""
