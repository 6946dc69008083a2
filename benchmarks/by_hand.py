"""A service as one writes it by hand: FastAPI, Pydantic, SQLAlchemy, and a commit for each note. It makes no marks.

python -m benchmarks.by_hand store.db
"""

from __future__ import annotations

import sys
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy import JSON, BigInteger, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from benchmarks.servers import serve_plainly

engine = create_engine(f"sqlite:///{sys.argv[1] if len(sys.argv) > 1 else 'by_hand.db'}")
app = FastAPI()


class Base(DeclarativeBase):
    pass


class StoredNote(Base):
    __tablename__ = "note"
    stream: Mapped[str] = mapped_column(primary_key=True)
    writer: Mapped[str] = mapped_column(primary_key=True)
    time: Mapped[int] = mapped_column(BigInteger)
    position: Mapped[dict[str, int]] = mapped_column(JSON)


class PostedNote(BaseModel):
    writer: str
    time: int
    position: dict[str, int]


def session() -> Session:
    return Session(engine)


@app.post("/v1/streams/{stream}/notes")
def note(stream: str, given: PostedNote, opened: Annotated[Session, Depends(session)]) -> dict[str, object]:
    with opened:
        opened.merge(StoredNote(stream=stream, **given.model_dump()))
        opened.commit()
    return {"late": False, "floor": None, "marks": []}


if __name__ == "__main__":
    Base.metadata.create_all(engine)
    serve_plainly(app)
