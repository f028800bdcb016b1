"""A stand-in for Modal: its control plane and the command router of its workers, on one port."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shlex
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from grpclib import GRPCError, Status
from grpclib.events import RecvRequest, listen
from grpclib.protocol import H2Protocol
from grpclib.server import Server as GrpcServer
from modal_proto import api_grpc, api_pb2, task_command_router_grpc
from modal_proto import task_command_router_pb2 as router_pb2

from pytest_aecbench.backends import Limits
from pytest_aecbench.errors import BackendError, SandboxGone, TransferError
from tests.standins.executor import Executor
from tests.standins.server import Call, Fault, ServerThread

__all__ = ["TOKEN_ID", "TOKEN_SECRET", "ModalServer"]

TOKEN_ID, TOKEN_SECRET = "ak-standin", "as-0123456789abcdef"
_TOKEN = "h.eyJleHAiOjQxMDI0NDQ4MDB9.s"  # expires in 2100
_FS_TOOL = "/__modal/.bin/modal-sandbox-fs-tools"
_CODES = {
    400: Status.INVALID_ARGUMENT,
    401: Status.UNAUTHENTICATED,
    429: Status.RESOURCE_EXHAUSTED,
    500: Status.INTERNAL,
    502: Status.UNAVAILABLE,
    503: Status.UNAVAILABLE,
}


@dataclass
class _Exec:
    sandbox_id: str
    arguments: list[str]
    stdin: bytearray = field(default_factory=bytearray)
    stdin_closed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0
    gone: bool = False

    def fail(self, kind: str, message: str) -> None:
        """End as the tool for files ends that cannot do its work."""
        self.code = 1
        self.stderr = json.dumps({"error_kind": kind, "message": message}).encode()


@dataclass
class _Sandbox:
    request: Any
    tags: dict[str, str]


def _unimplemented(base: type) -> type:
    """Return a class that answers every call of a service with "unimplemented"."""

    def refuse(name: str) -> Callable[..., Any]:
        async def method(self: Any, stream: Any) -> None:
            raise GRPCError(Status.UNIMPLEMENTED, f"the stand-in has no {name}")

        return method

    names = base.__abstractmethods__  # type: ignore[attr-defined]
    return type(f"Unimplemented{base.__name__}", (base,), {name: refuse(name) for name in names})


class _ClosingServer(GrpcServer):
    """Closes its connections as well, which grpclib leaves to the clients."""

    def __init__(self, handlers: list[Any]) -> None:
        super().__init__(handlers)
        self._protocols: list[H2Protocol] = []

    def _protocol_factory(self) -> H2Protocol:
        self._protocols.append(super()._protocol_factory())
        return self._protocols[-1]

    def close(self) -> None:
        super().close()
        for protocol in self._protocols:
            protocol.processor.close()


class ModalServer:
    """Really runs what it is asked to run, on ``executor``; ``skew`` is its clock's error."""

    CREATE = r"/SandboxCreateV2$"
    DOWNLOAD = r"/TaskExecStdioRead$"
    EXEC = r"/TaskExecStart$"
    KILL = r"/SandboxTerminateV2$"
    LIST = r"/SandboxListV2$"
    UPLOAD = r"/TaskExecStdinWriteStream$"

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.skew = timedelta()
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.commands: list[str] = []
        self.sandboxes: dict[str, _Sandbox] = {}
        self.spent_sec = 0.0  # in calls, all of them together
        self.images: dict[str, dict[str, Any]] = {}
        self.mounts: dict[str, dict[str, str]] = {}
        self.files: dict[str, bytes] = {}
        self.execs: dict[str, _Exec] = {}
        self._home = Path(tempfile.mkdtemp(dir=executor.home))
        self._start()

    def forget_images(self) -> None:
        """Remove all images, as their owner may."""
        self.images.clear()

    def environment(self) -> dict[str, str]:
        """Return the variables that lead the SDK here."""
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": TOKEN_ID,
            "MODAL_TOKEN_SECRET": TOKEN_SECRET,
        }

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._thread = ServerThread(self._serving(port))

    @asynccontextmanager
    async def _serving(self, port: int) -> AsyncIterator[None]:
        server = _ClosingServer([_Control(self), _Router(self)])
        listen(server, RecvRequest, self._watch)
        await server.start("127.0.0.1", port)
        yield
        server.close()
        await server.wait_closed()

    def close(self) -> None:
        self.reset()  # or threads would wait for the commands in sandboxes
        self._thread.close()

    def reset(self) -> None:
        """Forget the calls, faults and sandboxes of another test."""
        for sandbox_id in list(self.sandboxes):
            self.preempt(sandbox_id)
        self.calls.clear()
        self.faults.clear()
        self.commands.clear()
        self.skew = timedelta()

    def called(self, pattern: str) -> list[Call]:
        return [call for call in self.calls if re.search(pattern, call.path)]

    async def _watch(self, event: RecvRequest) -> None:
        metadata = {name: str(value) for name, value in event.metadata.items()}
        self.calls.append(Call("GRPC", event.method_name, metadata))
        event.method_func = self._timed(event.method_func)
        if "ModalClient" in event.method_name:
            given = (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret"))
            if given != (TOKEN_ID, TOKEN_SECRET):
                raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed")
        for fault in self.faults:
            if fault.befalls(event.method_name):
                await self._suffer(fault, event)
                return

    def _timed(self, method: Any) -> Any:
        async def timed(stream: Any) -> None:
            started = time.monotonic()
            try:
                await method(stream)
            finally:
                self.spent_sec += time.monotonic() - started

        return timed

    async def _suffer(self, fault: Fault, event: RecvRequest) -> None:
        if fault.status is not None:
            raise GRPCError(_CODES[fault.status], fault.message)
        method = event.method_func

        async def done_and_lost(stream: Any) -> None:
            if fault.hang and not fault.done:
                await asyncio.sleep(3600)
            send = stream.send_message

            async def withhold(message: Any, **options: Any) -> None:
                if fault.hang:
                    await asyncio.sleep(3600)
                data = getattr(message, "data", b"")
                if data:  # part of the output comes through
                    await send(type(message)(data=data[: len(data) // 2]), **options)
                raise GRPCError(Status.UNAVAILABLE, "connection lost")

            stream.send_message = withhold
            await method(stream)

        event.method_func = done_and_lost

    def preempt(self, sandbox_id: str) -> None:
        """End a sandbox as its vendor would."""
        self.sandboxes.pop(sandbox_id, None)
        self.executor.kill(sandbox_id)

    # Images

    def dockerfile(self, image: Any, context: Path) -> str:
        """Write an image's layers as one Dockerfile, and what it copies into ``context``."""
        lines: list[str] = []
        for base in image.base_images:
            lines += self.images[base.image_id]["lines"]
            for source in self.images[base.image_id]["context"].rglob("*"):
                if source.is_file():
                    target = context / source.relative_to(self.images[base.image_id]["context"])
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(source.read_bytes())
        own = [line for line in image.dockerfile_commands if line != "FROM base"]
        lines += [line for line in own if not line.startswith(("ENTRYPOINT", "CMD"))]
        for name, digest in self.mounts.get(image.context_mount_id, {}).items():
            target = context / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.files[digest])
        (context / "Dockerfile").write_text("\n".join(lines) + "\n")
        return "\n".join(lines)


class _Control(_unimplemented(api_grpc.ModalClientBase)):  # type: ignore[misc]
    """The control plane."""

    def __init__(self, server: ModalServer) -> None:
        self.server = server

    async def ClientHello(self, stream: Any) -> None:  # noqa: N802
        await stream.recv_message()
        await stream.send_message(api_pb2.ClientHelloResponse())

    async def AuthTokenGet(self, stream: Any) -> None:  # noqa: N802
        await stream.recv_message()
        await stream.send_message(api_pb2.AuthTokenGetResponse(token=_TOKEN))

    async def EnvironmentGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        await stream.recv_message()
        settings = api_pb2.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api_pb2.EnvironmentMetadata(name="main", settings=settings)
        answer = api_pb2.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)
        await stream.send_message(answer)

    async def AppGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        await stream.send_message(api_pb2.AppGetOrCreateResponse(app_id=f"ap-{request.app_name}"))

    async def MountBatchedCheckExistence(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        missing = [name for name in request.sha256_hex_hashes if name not in self.server.files]
        await stream.send_message(
            api_pb2.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing)
        )

    async def MountPutFile(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        self.server.files[request.sha256_hex] = request.data
        await stream.send_message(api_pb2.MountPutFileResponse(exists=True))

    async def MountGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        mount_id = f"mo-{secrets.token_hex(8)}"
        files = {file.filename: file.sha256_hex for file in request.files}
        self.server.mounts[mount_id] = files
        await stream.send_message(api_pb2.MountGetOrCreateResponse(mount_id=mount_id))

    async def ImageGetOrCreate(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        server = self.server
        image_id = f"im-{secrets.token_hex(8)}"
        directory = server._home / image_id
        context = directory / "environment"
        context.mkdir(parents=True)
        lines = server.dockerfile(request.image, context).split("\n")
        result = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)
        image_ref = ""
        try:
            image_ref = await asyncio.to_thread(server.executor.build, directory)
        except BackendError as error:
            result = api_pb2.GenericResult(
                status=api_pb2.GenericResult.GENERIC_STATUS_FAILURE, exception=str(error)
            )
        server.images[image_id] = {"lines": lines, "ref": image_ref, "context": context}
        answer = api_pb2.ImageGetOrCreateResponse(image_id=image_id, result=result)
        await stream.send_message(answer)

    async def ImageFromId(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        if request.image_id not in self.server.images:
            raise GRPCError(Status.NOT_FOUND, f"Image {request.image_id} not found")
        await stream.send_message(api_pb2.ImageFromIdResponse(image_id=request.image_id))

    async def SandboxCreate(self, stream: Any) -> None:  # noqa: N802
        """Start a sandbox of the first generation, which the SDK asks for with GPUs."""
        request = await stream.recv_message()
        sandbox_id = f"sb-{secrets.token_hex(8)}"
        self.server.sandboxes[sandbox_id] = _Sandbox(request.definition, {})
        await stream.send_message(api_pb2.SandboxCreateResponse(sandbox_id=sandbox_id))

    async def SandboxGetTaskId(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        task_id = f"ta-{request.sandbox_id}"
        await stream.send_message(api_pb2.SandboxGetTaskIdResponse(task_id=task_id))

    async def SandboxCreateV2(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        server, definition = self.server, request.definition
        sandbox_id = f"sb-{secrets.token_hex(8)}"
        blocked = api_pb2.NetworkAccess.NetworkAccessType.BLOCKED
        network = definition.network_access.network_access_type != blocked
        ref = server.images[definition.image_id]["ref"]
        await asyncio.to_thread(
            server.executor.create, sandbox_id, ref, limits=Limits(network=network)
        )
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        server.sandboxes[sandbox_id] = _Sandbox(definition, tags)
        lifetime = definition.timeout_secs
        loop = asyncio.get_running_loop()
        loop.call_later(lifetime, lambda: loop.run_in_executor(None, server.preempt, sandbox_id))
        access = api_pb2.CommandRouterAccess(url=server.url, jwt=_TOKEN)
        await stream.send_message(
            api_pb2.SandboxCreateV2Response(
                sandbox_id=sandbox_id,
                task_id=f"ta-{sandbox_id}-V",
                command_router_access=access,
            )
        )

    def _find(self, sandbox_id: str) -> _Sandbox:
        try:
            return self.server.sandboxes[sandbox_id]
        except KeyError:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox_id} not found") from None

    async def SandboxGetCommandRouterAccess(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        self._find(request.sandbox_id)
        await stream.send_message(
            api_pb2.SandboxGetCommandRouterAccessResponse(url=self.server.url, jwt=_TOKEN)
        )

    async def SandboxWaitV2(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        result = api_pb2.GenericResult()
        if request.sandbox_id not in self.server.sandboxes:
            result = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_TERMINATED)
        await stream.send_message(api_pb2.SandboxWaitResponse(result=result))

    async def SandboxTerminateV2(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        self.server.sandboxes.pop(request.sandbox_id, None)
        await asyncio.to_thread(self.server.executor.kill, request.sandbox_id)
        await stream.send_message(api_pb2.SandboxTerminateResponse())

    async def SandboxTerminate(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        self.server.sandboxes.pop(request.sandbox_id, None)
        await stream.send_message(api_pb2.SandboxTerminateResponse())

    async def SandboxListV2(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        listed = []
        if not request.before_timestamp or request.before_timestamp > 1:
            listed = [
                api_pb2.SandboxInfo(id=sandbox_id, created_at=1)
                for sandbox_id in self.server.sandboxes
            ]
        await stream.send_message(api_pb2.SandboxListResponse(sandboxes=listed))

    async def SandboxTagsGetV2(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        tags = [
            api_pb2.SandboxTag(tag_name=name, tag_value=value)
            for name, value in self._find(request.sandbox_id).tags.items()
        ]
        await stream.send_message(api_pb2.SandboxTagsGetResponse(tags=tags))


class _Router(_unimplemented(task_command_router_grpc.TaskCommandRouterBase)):  # type: ignore[misc]
    """The command router of a worker."""

    def __init__(self, server: ModalServer) -> None:
        self.server = server

    def _exec(self, exec_id: str) -> _Exec:
        found = self.server.execs.get(exec_id)
        if found is None or found.sandbox_id not in self.server.sandboxes:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        return found

    async def TaskExecStart(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        sandbox_id = request.task_id.removeprefix("ta-").removesuffix("-V")
        if sandbox_id not in self.server.sandboxes:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        if request.exec_id not in self.server.execs:  # else it is a repeated call
            process = _Exec(sandbox_id, list(request.command_args))
            self.server.execs[request.exec_id] = process
            self.server.commands.append(shlex.join(process.arguments))
            timeout_sec = request.timeout_secs or None
            work = self._work(process, request.workdir or None, timeout_sec)
            process.task = asyncio.get_running_loop().create_task(work)  # type: ignore[attr-defined]
        await stream.send_message(router_pb2.TaskExecStartResponse())

    async def _work(self, process: _Exec, cwd: str | None, timeout_sec: float | None) -> None:
        executor, sandbox_id = self.server.executor, process.sandbox_id
        try:
            if process.arguments[0] == _FS_TOOL:
                await self._use_files(process)
                return
            done = await asyncio.to_thread(
                executor.run,
                sandbox_id,
                shlex.join(process.arguments),
                cwd=cwd,
                timeout_sec=timeout_sec,
            )
            process.stdout, process.stderr = done.stdout.encode(), done.stderr.encode()
            process.code = -1 if done.timed_out else done.returncode or 0
        except (SandboxGone, KeyError):
            process.gone = True
        finally:
            process.ended.set()

    async def _use_files(self, process: _Exec) -> None:
        """Do what the tool in a real sandbox does."""
        executor, sandbox_id = self.server.executor, process.sandbox_id
        ((what, asked),) = json.loads(process.arguments[1]).items()
        if what == "WriteFile":
            await process.stdin_closed.wait()
            with tempfile.NamedTemporaryFile(dir=self.server._home) as file:
                file.write(process.stdin)
                file.flush()
                source = Path(file.name)
                try:
                    await asyncio.to_thread(executor.write, sandbox_id, asked["path"], source)
                except OSError:
                    full = "No space left on device (os error 28)"
                    process.fail("StorageFull", full)
                except TransferError as error:
                    process.fail("Other", str(error))
            return
        assert what == "ReadFile", what
        try:
            pieces = await asyncio.to_thread(lambda: list(executor.read(sandbox_id, asked["path"])))
            process.stdout = b"".join(pieces)
        except FileNotFoundError:
            process.fail("NotFound", "no such file")

    async def TaskExecStdinWriteStream(self, stream: Any) -> None:  # noqa: N802
        process: _Exec | None = None
        async for request in stream:
            kind = request.WhichOneof("payload") or request.WhichOneof(
                request.DESCRIPTOR.oneofs[0].name
            )
            if kind == "start":
                process = self._exec(request.start.exec_id)
                del process.stdin[request.start.offset :]
            elif process is not None and kind == "data":
                process.stdin += request.data
            elif process is not None:
                process.stdin_closed.set()
        await stream.send_message(router_pb2.TaskExecStdinWriteStreamResponse())

    async def TaskExecStdinStatus(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        process = self._exec(request.exec_id)
        await stream.send_message(
            router_pb2.TaskExecStdinStatusResponse(
                num_bytes_written=len(process.stdin), closed=process.stdin_closed.is_set()
            )
        )

    async def TaskExecStdioRead(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        process = self._exec(request.exec_id)
        await process.ended.wait()
        if process.gone:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        is_stdout = request.file_descriptor == router_pb2.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        data = (process.stdout if is_stdout else process.stderr)[request.offset :]
        for start in range(0, len(data), 1 << 20):
            piece = data[start : start + (1 << 20)]
            await stream.send_message(router_pb2.TaskExecStdioReadResponse(data=piece))

    async def TaskExecWait(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        process = self._exec(request.exec_id)
        await process.ended.wait()
        if process.gone:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        await stream.send_message(router_pb2.TaskExecWaitResponse(code=process.code))

    async def TaskExecPoll(self, stream: Any) -> None:  # noqa: N802
        request = await stream.recv_message()
        process = self._exec(request.exec_id)
        answer = router_pb2.TaskExecPollResponse()
        if process.ended.is_set():
            answer = router_pb2.TaskExecPollResponse(code=process.code)
        await stream.send_message(answer)
