"""Step 8's table of Python frames outside communication: data, storage, compilation, the network, the process itself.

Above each row, or group of rows, stands a real frame that it must match, as py-spy prints it.
"""

from collector.align.stacks.tables.row_types import Doing, FramePattern, WaitsOn, frame_row, package, stdlib
from shared.answer.words import Cause

_DATA: tuple[FramePattern, ...] = (
    # _try_get_data (torch/utils/data/dataloader.py:1310)
    # _next_data (torch/utils/data/dataloader.py:1498)
    frame_row(
        Doing.OUTSIDE,
        Cause.DATALOADER,
        "waiting for its DataLoader",
        r"^(_try_get_data|_get_data|_next_data|__next__|__iter__|_shutdown_workers|_reset)$",
        r"(^|/)torch/utils/data/dataloader\.py$",
    ),
    # _worker_loop (torch/utils/data/_utils/worker.py:349)
    frame_row(
        Doing.OUTSIDE,
        Cause.DATALOADER,
        "in a DataLoader worker",
        r"^_worker_loop$",
        r"(^|/)torch/utils/data/_utils/worker\.py$",
    ),
    # fetch (torch/utils/data/_utils/fetch.py:52)
    frame_row(
        Doing.OUTSIDE, Cause.DATALOADER, "loading a batch", r"^fetch$", r"(^|/)torch/utils/data/_utils/fetch\.py$"
    ),
    # __next__ (nvidia/dali/plugin/base_iterator.py:214); __iter__ (streaming/base/dataset.py:1520)
    # iterator (webdataset/pipeline.py:70); __next__ (torchdata/nodes/base_node.py:120)
    frame_row(
        Doing.OUTSIDE,
        Cause.DATALOADER,
        "loading data",
        r".",
        package("nvidia/dali", "streaming/base", "webdataset", "torchdata", "ffcv", "squirrel"),
    ),
    # map (datasets/arrow_dataset.py:3079); _prepare_split (datasets/builder.py:1750)
    frame_row(Doing.OUTSIDE, Cause.DATALOADER, "preparing a data set", r".", package("datasets")),
)

_STORAGE: tuple[FramePattern, ...] = (
    # save (torch/serialization.py:944); _save (torch/serialization.py:1200)
    frame_row(
        Doing.OUTSIDE, Cause.CHECKPOINT, "saving or loading a checkpoint", r".", r"(^|/)torch/serialization\.py$"
    ),
    # _wait_for_response (torch/distributed/checkpoint/_async_process_executor.py:143)
    frame_row(
        Doing.OUTSIDE,
        Cause.CHECKPOINT,
        "waiting for the process that saves its checkpoints",
        r"^(_wait_for_response|save)$",
        r"(^|/)torch/distributed/checkpoint/_async_process_executor\.py$",
        waits_on=WaitsOn.CHILD,
    ),
    # save (torch/distributed/checkpoint/state_dict_saver.py:170)
    frame_row(
        Doing.OUTSIDE, Cause.CHECKPOINT, "saving or loading a checkpoint", r".", r"(^|/)torch/distributed/checkpoint/"
    ),
    # serialize_file (safetensors/torch.py:286); save_checkpoint (lightning/fabric/plugins/io/torch_io.py:50)
    # save (deepspeed/runtime/checkpoint_engine/torch_checkpoint_engine.py:22)
    # save (megatron/core/dist_checkpointing/serialization.py:370); take (torchsnapshot/snapshot.py:200)
    frame_row(
        Doing.OUTSIDE,
        Cause.CHECKPOINT,
        "saving or loading a checkpoint",
        r".",
        r"(^|/)(safetensors|torchsnapshot|orbax|megatron/core/dist_checkpointing|deepspeed/runtime/checkpoint_engine"
        r"|(pytorch_lightning|lightning/(pytorch|fabric))/plugins/io)/",
    ),
    # _acquire (filelock/_unix.py:42); acquire (torch/utils/_filelock.py:20); lock (huggingface_hub/utils/_fixes.py:88)
    frame_row(
        Doing.OUTSIDE,
        Cause.FILESYSTEM,
        "waiting for a lock file",
        r".",
        r"(^|-packages/)((filelock|fasteners|portalocker)/|torch/utils/_filelock\.py$|datasets/utils/_filelock\.py$)",
        waits_on=WaitsOn.LOCK_FILE,
    ),
    # open (tensorstore/__init__.py:90); read (h5py/_hl/dataset.py:770); open (zarr/storage.py:1080)
    frame_row(
        Doing.OUTSIDE, Cause.FILESYSTEM, "reading or writing files", r".", package("tensorstore", "h5py", "zarr")
    ),
    # copyfileobj (shutil.py:197); _rmtree_safe_fd (shutil.py:664)
    frame_row(Doing.OUTSIDE, Cause.FILESYSTEM, "copying, removing or listing files", r".", stdlib("shutil", "glob")),
)

_COMPILATION: tuple[FramePattern, ...] = (
    # _compile (torch/_dynamo/convert_frame.py:1100)
    # _compile_fx_inner (torch/_inductor/compile_fx.py:650); load (torch/_inductor/codecache.py:2300)
    # Not eval_frame.py, output_code.py or runtime wrappers: a compiled model runs under these in every step.
    frame_row(
        Doing.OUTSIDE,
        Cause.COMPILE,
        "compiling",
        r"^(?!run$)",
        r"(^|/)torch/(_dynamo/(convert_frame|symbolic_convert|output_graph)\.py$"
        r"|_inductor/(compile_fx\w*|graph|scheduler|codecache|cpp_builder|async_compile|lowering|select_algorithm"
        r"|autotune_process|fx_passes|compile_worker|codegen)\b)",
    ),
    # compile (triton/compiler/compiler.py:280); make_cubin (triton/backends/nvidia/compiler.py:380)
    frame_row(
        Doing.OUTSIDE,
        Cause.COMPILE,
        "compiling",
        r".",
        package("triton") + r"(compiler/|backends/\w+/compiler\.py$|runtime/build\.py$)",
    ),
    # wait (torch/utils/file_baton.py:63): another process compiles, or has been killed while it did
    frame_row(
        Doing.OUTSIDE,
        Cause.COMPILE,
        "waiting for a build lock",
        r"^wait$",
        r"(^|/)torch/utils/file_baton\.py$",
        waits_on=WaitsOn.LOCK_FILE,
    ),
    # load (torch/utils/cpp_extension.py:1514)
    # jit_load (deepspeed/ops/op_builder/builder.py:530)
    frame_row(
        Doing.OUTSIDE,
        Cause.COMPILE,
        "compiling",
        r".",
        r"(^|/)(torch/utils/cpp_extension|deepspeed/ops/op_builder/builder)\.py$",
    ),
)

_NETWORK: tuple[FramePattern, ...] = (
    # getaddrinfo (socket.py:962): a name server that does not answer
    frame_row(Doing.OUTSIDE, Cause.NETWORK, "looking up a host's name", r"^(getaddrinfo|getfqdn)$", stdlib("socket")),
    # connect (http/client.py:941); readinto (socket.py:706); read (ssl.py:1108); urlopen (urllib/request.py:216)
    frame_row(
        Doing.OUTSIDE,
        Cause.NETWORK,
        "waiting for the network outside the job",
        r"^(?!accept$)",
        stdlib("socket", "ssl", "http/client", "urllib/request", "ftplib", "smtplib", "xmlrpc/client"),
    ),
    # sleep (tenacity/nap.py:31); _retry (backoff/_sync.py:105); retry_target (google/api_core/retry/retry_unary.py:190)
    frame_row(
        Doing.OUTSIDE,
        Cause.NETWORK,
        "waiting before a retry",
        r".",
        package("tenacity", "backoff", "retrying", "google/api_core/retry") + r"|/urllib3/util/retry\.py$",
    ),
    # send (requests/adapters.py:667); handle_request (httpcore/_sync/http11.py:99); _sync (fsspec/asyn.py:95)
    # _call_s3 (s3fs/core.py:364); _request (gcsfs/core.py:430); upload_folder (huggingface_hub/hf_api.py:5070)
    frame_row(
        Doing.OUTSIDE,
        Cause.NETWORK,
        "waiting for the network outside the job",
        r".",
        package(
            *("urllib3", "requests", "httpx", "httpcore", "aiohttp", "botocore", "boto3", "s3transfer", "grpc"),
            *("fsspec", "s3fs", "gcsfs", "adlfs", "ocifs", "smart_open", "huggingface_hub", "google/cloud", "azure"),
            *("minio", "paramiko", "psycopg2?", "pymongo", "sqlalchemy", "etcd3?"),
        ),
    ),
    # _wait_for_response (wandb/sdk/mailbox/mailbox_handle.py:60); log_metric (mlflow/tracking/client.py:1800)
    frame_row(
        Doing.OUTSIDE,
        Cause.NETWORK,
        "reporting to a tracking service",
        r".",
        package("wandb", "mlflow", "comet_ml", "neptune", "clearml", "swanlab", "aim", "sentry_sdk"),
    ),
)

_HOME: tuple[FramePattern, ...] = (
    # interaction (pdb.py:357); dispatch_line (bdb.py:90)
    frame_row(Doing.OUTSIDE, Cause.DEBUGGER, "in a debugger", r".", stdlib("pdb", "bdb")),
    # cmdloop (cmd.py:126); interact (code.py:239)
    frame_row(
        Doing.OUTSIDE,
        Cause.DEBUGGER,
        "in a debugger",
        r"^(cmdloop|onecmd|interact|raw_input|runsource)$",
        stdlib("cmd", "code"),
    ),
    # mainloop (IPython/terminal/interactiveshell.py:917); wait_for_client (debugpy/server/api.py:200)
    # do_wait_suspend (pydevd/pydevd.py:2200); prompt (prompt_toolkit/shortcuts/prompt.py:1035)
    frame_row(
        Doing.OUTSIDE,
        Cause.DEBUGGER,
        "in a debugger",
        r".",
        r"(^|/)(ipdb|IPython|debugpy|pydevd|_pydevd_bundle|pudb|remote_pdb|ptpython|prompt_toolkit)/",
    ),
    # unix_getpass (getpass.py:77); prompt (click/termui.py:164)
    frame_row(
        Doing.OUTSIDE,
        Cause.USER_CODE,
        "waiting for terminal input",
        r".",
        rf"{stdlib('getpass')}|{package('click')}termui\.py$",
    ),
    # _shutdown (threading.py:1590); _exit_function (multiprocessing/util.py:334)
    # _python_exit (concurrent/futures/thread.py:31)
    frame_row(
        Doing.OUTSIDE,
        Cause.TEARDOWN,
        "shutting down",
        r"^(_shutdown|_exit_function|_run_finalizers|_python_exit)$",
        stdlib("threading", "multiprocessing/util", "concurrent/futures/(thread|process)"),
    ),
    # _find_and_load (<frozen importlib._bootstrap>:1176)
    frame_row(Doing.OUTSIDE, Cause.IMPORT, "importing", r".", r"^<frozen importlib"),
    # get (multiprocessing/pool.py:768): a pool forgets the tasks of a worker that was killed
    # get (multiprocess/pool.py:768)
    frame_row(
        Doing.OUTSIDE,
        Cause.USER_CODE,
        "waiting for a pool of child processes",
        r"^(get|wait|next|join|_help_stuff_finish)$",
        r"(^|/)multiprocess(ing)?/pool\.py$",
        waits_on=WaitsOn.CHILD,
    ),
    # _communicate (subprocess.py:2115); wait (subprocess.py:1264)
    # poll (multiprocessing/popen_fork.py:27)
    frame_row(
        Doing.OUTSIDE,
        Cause.USER_CODE,
        "waiting for a child process",
        r"^(_communicate|communicate|wait|_wait|_try_wait|poll|join|call|run|check_\w+|__exit__|__init__|_execute_child)$",
        rf"{stdlib('subprocess')}|(^|/)multiprocess(ing)?/popen_\w+\.py$",
        waits_on=WaitsOn.CHILD,
    ),
    # acquire (logging/__init__.py:922); flush (logging/__init__.py:1084)
    frame_row(
        Doing.OUTSIDE,
        Cause.USER_CODE,
        "waiting for the lock of a log handler",
        r"^(acquire|_acquireLock)$",
        r"(^|/)logging/__init__\.py$",
    ),
    frame_row(Doing.OUTSIDE, Cause.USER_CODE, "writing to its log", r"^(emit|flush)$", r"(^|/)logging/\w+\.py$"),
    # save_checkpoint (train.py:88): the user's own function says what it is for. Not `checkpoint`
    # (torch/utils/checkpoint.py:496), which recomputes activations.
    frame_row(
        Doing.OUTSIDE,
        Cause.CHECKPOINT,
        "saving or loading a checkpoint",
        r"(?i)(save|write|load|restore|export|commit).*(check_?point|ckpt)|(check_?point|ckpt).*(save|write|load|restore)",
    ),
)

OUTSIDE_FRAMES: tuple[FramePattern, ...] = (*_STORAGE, *_DATA, *_COMPILATION, *_NETWORK, *_HOME)
