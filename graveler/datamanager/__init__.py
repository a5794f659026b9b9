"""The data manager of Keep: it compares the blocks that servers have with those that are needed.

A sweep reads the index of every volume and then the live set. It decides block by block which
servers fetch a copy and which copies go to the trash, and it sends both lists to the servers.
"""
