"""One bad neighbour beside a healthy quorum: what the clients see of it.

``python -m evidence.neighbours`` goes through all faults with threads and tasks, in both orders,
on three and five masters.
"""
