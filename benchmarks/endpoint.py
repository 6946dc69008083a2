"""What most applications start from: an endpoint of FastAPI's with a pydantic body. It takes notes and does nothing."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.servers import serve_plainly


class Note(BaseModel):
    writer: str
    time: int
    position: dict[str, int]


app = FastAPI()


@app.post("/v1/streams/{stream}/notes", response_model=None)
async def note(stream: str, body: Note) -> dict[str, object]:
    return {"late": False, "floor": None, "marks": []}


if __name__ == "__main__":
    serve_plainly(app)
