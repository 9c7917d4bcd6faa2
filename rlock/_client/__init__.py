"""The parts that all drivers share: connections, rounds, subscriptions, holds; everything but the waiting."""
