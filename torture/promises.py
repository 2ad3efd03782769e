"""All promises that are tried, by name: a new one is a module with a `PROMISE`, and a line here."""

from __future__ import annotations

from torture import (
    caches,
    clients,
    exact,
    folders,
    histories,
    images,
    io_errors,
    kills,
    model_histories,
    mutations,
    power,
    records,
    serving,
    uploads,
)
from torture.promise import Promise

PROMISES: dict[str, Promise] = {
    promise.name: promise
    for promise in (
        kills.PROMISE,
        io_errors.PROMISE,
        power.PROMISE,
        mutations.PROMISE,
        caches.PROMISE,
        records.PROMISE,
        images.PROMISE,
        folders.PROMISE,
        histories.PROMISE,
        exact.PROMISE,
        model_histories.PROMISE,
        serving.PROMISE,
        clients.PROMISE,
        uploads.PROMISE,
    )
}
