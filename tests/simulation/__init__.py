"""One seed, one history: writers, a log that scales, a controller, readers, a clock, and everything that goes wrong.

    world.py       draws what happens next, step by step, from the seed
    scenario.py    what kind of world a seed gives: settings, faults, who lives in it
    log.py         the truth: every event ever written
    network.py     messages that are lost, repeated, delayed and reordered
    writers.py     processes that hold to the promise of a note; tail reporters
    controller.py  a Stream, and the store from which it is restored after a crash
    accounts.py    what each writer said last, and whether it may be taken for lost
    checker.py     knows the truth, and what each writer was told; proves every mark against both
    people.py      readers with their windows, and operators
    ending.py      faults stop: then time moves on
    soak.py        runs seeds from the command line, and replays one

`python -m tests.simulation.soak --seed N --trace` tells the history of one seed.
"""
