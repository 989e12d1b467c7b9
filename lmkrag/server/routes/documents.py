"""Documents: what there is, their texts, pages and relevance; adding and removing them, and the
jobs that add them.

In these paths the slashes of an id may be sent as they are or as ``%2F``; as ``%2F`` an id may even
end in ``/text``.
"""

import re
from itertools import islice, pairwise
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from pydantic import AfterValidator, BeforeValidator, ValidationError

from lmkrag.errors import DocumentError, LmkragError
from lmkrag.formats.pages import SCALES
from lmkrag.rendering.blocks import parse_blocks
from lmkrag.serialization import DocumentsReply, RelevanceReply, TextReply
from lmkrag.server.problems import Problem
from lmkrag.server.schemas import (
    MAX_QUERY,
    BlocksReply,
    DocumentBody,
    Excerpt,
    MatchesReply,
    Outline,
    PlacesReply,
    RemovedReply,
    find_info,
)
from lmkrag.server.service import TheEngine, TheIndex, TheUploads, on_thread
from lmkrag.server.upload_jobs import UploadJob
from lmkrag.system.files import FileStamp, find_path, hash_file
from lmkrag.types import MAX_DOC_ID, Document, DocumentInfo, SentenceScore

router = APIRouter(prefix="/api/documents", tags=["documents"])
jobs = APIRouter(prefix="/api/jobs", tags=["jobs"])

_MOST_TEXT = 200_000  # characters of a text in one response
_MOST_BLOCKS = 400_000  # characters of a document in one response
_LONGEST_LINE = 20_000  # characters of a line that is returned whole
_MOST_POINTS = 20_000
_MOST_MATCHES = 1_000  # headings, or places of words
# What a browser may show of originals: nothing that can have a script. The rest it downloads.
_PICTURES = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
_TEXT = "text/plain; charset=utf-8"
_SHOWN = {"pdf": "application/pdf", "text": _TEXT, "markdown": _TEXT, "rst": _TEXT, "code": _TEXT}
_MOST_JSON = 16 << 20  # bytes of a document that is sent as JSON

_Offset = Annotated[int, Query(ge=0, le=2**53)]
_NO_END = ("", "0")  # what language models and forms send for it
_End = Annotated[
    int | None,
    Query(ge=0, le=2**53),
    BeforeValidator(lambda end: None if end in _NO_END else end),
]


DocId = Annotated[
    str,
    Path(description="Id of the document; slashes may be sent as %2F."),
    AfterValidator(unquote),  # routes of documents are matched on the encoded path
]


@router.get(
    "",
    response_model=DocumentsReply,
    response_model_exclude={"documents": {"__all__": {"page_starts"}}},
)
@on_thread
def list_documents(
    engine: TheEngine,
    filter: Annotated[str | None, Query(max_length=MAX_QUERY)] = None,
    after: Annotated[
        str, Query(max_length=MAX_DOC_ID, description="Id of the last document of the page before.")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Any:
    """List documents, by id: page by page with ``after``, which neither repeats nor skips one when
    the list changes.
    """
    page = engine.documents(filter=filter or None, after=after, limit=limit)
    total = len(engine.documents(filter=filter)) if filter else engine.status().documents
    return {"documents": page, "total": total}


@router.get("/{doc_id:path}/text")
@on_thread
def read_text(doc_id: DocId, engine: TheEngine, start: _Offset = 0, end: _End = None) -> TextReply:
    """Return characters of a document's text, exactly as indexed: 200,000 at most."""
    return Excerpt.read(engine, doc_id, start, end, most=_MOST_TEXT)


@router.get("/{doc_id:path}/blocks", response_model=BlocksReply)
@on_thread
def read_blocks(doc_id: DocId, engine: TheEngine, start: _Offset = 0, end: _End = None) -> Any:
    """Return the lines of a document with characters ``[start, end)`` as a tree: 400,000 characters
    at most.
    """
    info = find_info(engine, doc_id)
    first = min(start, info.characters)
    stop = min(info.characters if end is None else max(first, end), first + _MOST_BLOCKS)
    first -= len(engine.read(doc_id, max(0, first - _LONGEST_LINE), first).rpartition("\n")[2])
    stop += len(engine.read(doc_id, stop, stop + _LONGEST_LINE).partition("\n")[0])
    text = engine.read(doc_id, first, stop)
    return {
        "blocks": parse_blocks(text, kind=info.kind, start=first, name=doc_id),
        "start": first,
        "end": stop,
        "line": engine.read(doc_id, 0, first).count("\n") + 1,
        "characters": info.characters,
    }


@router.get("/{doc_id:path}/relevance", response_model=RelevanceReply)
@on_thread
def score_sentences(
    doc_id: DocId,
    engine: TheEngine,
    query: Annotated[str, Query(min_length=1, max_length=MAX_QUERY)],
    points: Annotated[
        int, Query(ge=0, le=_MOST_POINTS, description="Sentences at most; 0 for all.")
    ] = 2_000,
) -> Any:
    """Say how well each sentence fits a question; of a long document the best of every few."""
    scores = engine.score_sentences(query, doc_id)
    return {"sentences": thin_out(scores, points), "total": len(scores)}


def thin_out(scores: list[SentenceScore], points: int) -> list[SentenceScore]:
    """Return the best sentence of each of ``points`` equal runs, in order; all sentences if there
    are fewer.
    """
    if not points or len(scores) <= points:
        return scores
    borders = [len(scores) * number // points for number in range(points + 1)]
    return [
        max(scores[low:high], key=lambda sentence: sentence.score)
        for low, high in pairwise(borders)
    ]


@router.get("/{doc_id:path}/outline")
@on_thread
def read_outline(doc_id: DocId, engine: TheEngine) -> Outline:
    """List the first 1,000 headings of a document, its slides, or the functions and classes of
    source code.
    """
    return Outline.read(engine, doc_id, most=_MOST_MATCHES)


@router.get("/{doc_id:path}/matches", response_model=MatchesReply)
@on_thread
def find_words(
    doc_id: DocId, engine: TheEngine, query: Annotated[str, Query(pattern=r"\S", max_length=200)]
) -> Any:
    """Find words in a document, in whatever case and wherever lines end: the first 1,000 places."""
    pattern = re.compile(r"\s+".join(map(re.escape, query.split())), re.IGNORECASE)
    matches = islice(pattern.finditer(engine.read(doc_id)), _MOST_MATCHES)
    return {"matches": [match.span() for match in matches]}


@router.get(
    "/{doc_id:path}/original",
    response_class=FileResponse,
    responses={200: {"content": {"*/*": {}}, "description": "The file."}},
)
@on_thread
def send_original(doc_id: DocId, engine: TheEngine) -> FileResponse:
    """Send the file of a document if it is as it was when it was indexed."""
    info = find_info(engine, doc_id)
    if not info.modified:  # whoever added it chose its path
        raise DocumentError(f"{doc_id} is in no file")
    path = find_path(info.path)
    try:
        unchanged = hash_file(path, FileStamp.of(path.stat())) == info.fingerprint
    except OSError as error:
        raise DocumentError(f"{doc_id}: its file can't be read") from error
    if not unchanged:
        raise DocumentError(f"{doc_id}: its file has changed since it was indexed")
    shown = _SHOWN.get(info.kind) or _PICTURES.get(path.suffix.lower())
    return FileResponse(
        path,
        media_type=shown or "application/octet-stream",
        filename=path.name,
        content_disposition_type="inline" if shown else "attachment",
    )


@router.get("/{doc_id:path}/places", response_model=PlacesReply)
@on_thread
def find_places(doc_id: DocId, engine: TheEngine, start: _Offset, end: _Offset) -> Any:
    """Say where characters of a PDF file, a picture or slides stand on the pages."""
    info = find_info(engine, doc_id)
    places = engine.pages.find_places(info, start, min(end, start + _MOST_TEXT))
    return {"places": [{"page": number, "rectangles": rectangles} for number, rectangles in places]}


@router.get(
    "/{doc_id:path}/pages/{number}.webp",
    response_class=Response,
    responses={200: {"content": {"image/webp": {}}, "description": "The page."}},
)
@on_thread
def draw_page(
    number: Annotated[int, Path(ge=1, le=1_000_000)],
    doc_id: DocId,
    engine: TheEngine,
    scale: Annotated[
        float, Query(ge=SCALES[0], le=SCALES[1], description="Pixels to a point.")
    ] = 1.5,
) -> Response:
    """Draw a page of a PDF, from the file that was indexed and no other."""
    info = find_info(engine, doc_id)
    return Response(
        engine.pages.draw(info, number, scale=scale, form="WEBP"),
        media_type="image/webp",
        headers={
            "ETag": f'"{info.fingerprint[:16]}-{number}-{scale:g}"',
            "Cache-Control": "private, max-age=3600",
        },
    )


@router.get("/{doc_id:path}")
@on_thread
def describe(doc_id: DocId, engine: TheEngine) -> DocumentInfo:
    """Return what the index knows of a document, its text aside."""
    return find_info(engine, doc_id)


_BODIES = {
    "required": True,
    "content": {
        "application/json": {"schema": DocumentBody.model_json_schema()},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}


@router.put("/{doc_id:path}", status_code=202, openapi_extra={"requestBody": _BODIES})
async def put_document(
    doc_id: DocId, request: Request, response: Response, uploads: TheUploads, index: TheIndex
) -> UploadJob:
    """Add a document or replace it: a file's bytes, or JSON with its text. It is indexed by a
    job.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            body = DocumentBody.model_validate_json(await _read_json(request))
            path, title = body.path or doc_id, body.title or doc_id
            document = Document(doc_id, path, body.text, title, body.kind, meta=body.meta)
            job = await uploads.add_document(index, document)
        else:
            job = await uploads.receive(index, doc_id, request.stream())
    except ValidationError as error:
        raise RequestValidationError(
            [{**item, "loc": ("body", *item["loc"])} for item in error.errors()]
        ) from None
    except LmkragError as error:
        raise index.to_problem(error) from error
    response.headers["Location"] = f"/api/jobs/{job.job_id}"
    return job


@router.delete("/{doc_id:path}", response_model=RemovedReply)
async def remove_document(doc_id: DocId, uploads: TheUploads, index: TheIndex) -> Any:
    """Remove a document from the index, and the file that was uploaded for it; another file is left
    where it is.
    """
    return {"removed": await index.run(lambda _: uploads.remove(index, doc_id))}


async def _read_json(request: Request) -> bytearray:
    """The body of a request, held in memory."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > _MOST_JSON:
            raise Problem(
                413, "too-large", f"a text of more than {_MOST_JSON:,} bytes is sent as a file"
            )
    return data


@jobs.get("/{job_id}")
async def find_job(job_id: str, uploads: TheUploads) -> UploadJob:
    """Return a job."""
    return uploads.find(job_id)
