"""Hands work to a background thread before the program ends and while it ends."""

import atexit

from graveler.process import OneThread

background = OneThread()
background.run(lambda: print("early"))
atexit.register(background.close)
atexit.register(background.run, lambda: print("late"))
