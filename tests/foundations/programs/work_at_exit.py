"""Gives tasks to a background thread before and during the program's exit."""

import atexit

from graveler.base.background import OneThread

background = OneThread()
background.run(lambda: print("early"))
atexit.register(background.close)
atexit.register(background.run, lambda: print("late"))
