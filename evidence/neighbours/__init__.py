"""One bad neighbour beside a healthy quorum: what the clients see of it.

``python -m evidence.neighbours``: all faults, threads and tasks, both orders, three and five masters.
"""
