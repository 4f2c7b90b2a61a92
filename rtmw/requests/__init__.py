"""Requests with answers, on two topics: a Service answers what a Client asks, once or by a stream of replies."""

from rtmw.requests.client import Client, ClientStats, Stream
from rtmw.requests.service import Service, ServiceStats

__all__ = ["Client", "ClientStats", "Service", "ServiceStats", "Stream"]
