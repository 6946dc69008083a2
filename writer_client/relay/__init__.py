"""`strandline relay`: notes that producers send as records of a topic become notes in streams.

record → what it notes (`records`) → what is owed to each writer (`owed`) → register, note, idle, close (`loop`)
"""
