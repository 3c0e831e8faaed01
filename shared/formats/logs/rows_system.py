"""Lines of CUDA, Python, torchrun, Slurm and the kernel about processes that end."""

from shared.formats.logs.row import row
from shared.wire.log_events import EventKind

ENDINGS = (
    # torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.10 GiB …
    row(EventKind.OUT_OF_MEMORY, "CUDA out of memory", r"(?P<type>CUDA out of memory)"),
    # RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you …
    row(
        EventKind.OUT_OF_MEMORY,
        "DefaultCPUAllocator",
        r"(?P<type>DefaultCPUAllocator: (?:can't allocate|not enough) memory)",
    ),
    # slurmstepd: error: Detected 1 oom_kill event in StepId=4242.0. Some of the step tasks have been OOM Killed.
    # slurmstepd: error: Detected 2 oom-kill event(s) in StepId=4242.batch cgroup. Some of your processes …   Slurm 20
    # slurmstepd: error: Detected 1 oom-kill event(s) in step 4242.0 cgroup.                                 before
    row(
        EventKind.OUT_OF_MEMORY,
        "kill event",
        r"Detected (?P<count>\d{1,9}) oom[_-]kill event(?:s|\(s\))? in (?:StepId=|step )"
        r"(?P<step>[\d_+]{1,30}\.\w{1,30})",
    ),
    # Out of memory: Killed process 4242 (python3) total-vm:…      Memory cgroup out of memory: Killed process 42 …
    row(EventKind.OUT_OF_MEMORY, "ut of memory: Killed process", r"ut of memory: Killed process (?P<pid>\d{1,10})"),
    # transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'         Cuda failure 'out of memory'
    row(
        EventKind.DEVICE_ERROR,
        "Cuda failure",
        r"Cuda failure (?:(?P<status>\d{1,5}) )?'(?P<what>[^'\n]{1,200})'",
    ),
    # HW Exception by GPU node-2 (Agent handle: 0x55d0) reason :GPU Hang                                        ROCm
    # Memory access fault by GPU node-2 (Agent handle: 0x55d0) on address 0x7f00. Reason: Page not present …    ROCm
    row(
        EventKind.DEVICE_ERROR,
        " by GPU node-",
        r"(?P<what>HW Exception by GPU node-\d{1,4}[^\n]{0,60}reason ?: ?[^\n]{1,60}"
        r"|Memory access fault by GPU node-\d{1,4})",
    ),
    # :0:rocdevice.cpp:3586: Callback: Queue 0x7f00 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL …
    row(
        EventKind.DEVICE_ERROR,
        " aborting with error : HSA_STATUS",
        r"Queue 0x[0-9a-f]{1,16} (?P<what>aborting with error : HSA_STATUS_ERROR[^\n]{0,120})",
    ),
    #         Device[1] lost heartbeat.[FUNC:SyncTask]…                                                          Ascend
    row(EventKind.DEVICE_ERROR, "] lost heartbeat", r"(?P<what>Device\[\d{1,4}\] lost heartbeat)"),
    # synchronous_driver.cc:820] [/dev/accel0 tpu1:pe1:0] !!!! FATAL ERROR !!!! for [/dev/accel0 tpu1:pe1:0] , …     TPU
    row(
        EventKind.DEVICE_ERROR,
        "!!!! FATAL ERROR !!!!",
        r"\] \[(?P<what>/dev/accel\d{1,4} [^\]\n]{1,80}\] !!!! FATAL ERROR)",
    ),
    # RuntimeError: cuda runtime error (39) : uncorrectable ECC error encountered at /pytorch/aten/…:265    torch to 1.4
    row(
        EventKind.DEVICE_ERROR,
        "cuda runtime error (",
        r"cuda runtime error \((?P<status>\d{1,5})\) : (?P<what>[^\n]{1,160}?) at /",
    ),
    # RuntimeError: CUDA error: an illegal memory access was encountered                HIP error: out of memory
    row(EventKind.DEVICE_ERROR, "CUDA error: ", r"CUDA error: (?P<what>[^\n]{1,200})"),
    row(EventKind.DEVICE_ERROR, "HIP error: ", r"HIP error: (?P<what>[^\n]{1,200})"),
    # E1121 09:10:11.123 4242 torch/distributed/elastic/multiprocessing/api.py:988] failed (exitcode: -9) local_rank: 2
    #   (pid: 4245) of binary: /srv/venv/bin/python
    # ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -7)              as people cut it off
    row(
        EventKind.SIGNAL,
        "failed (exitcode:",
        r"failed \(exitcode: (?P<exit_code>-?\d{1,9})\)"
        r"(?: local_rank: (?P<local_rank>\d{1,7}) \(pid: (?P<pid>\d{1,10})\))?",
    ),
    #   exitcode  : -9 (pid: 4245)                                           torchelastic's table of who ended
    row(
        EventKind.SIGNAL,
        "exitcode",
        r"(?:^|\s)exitcode {0,4}: (?P<exit_code>-?\d{1,9}) \(pid: (?P<pid>\d{1,10})\)",
    ),
    #   time      : 2026-11-21_09:10:41                               when it was seen to have ended, above these two
    row(
        EventKind.SIGNAL,
        "time      : ",
        r"^\s{0,8}time {6}: (?P<seen_ended>20\d\d-\d\d-\d\d_\d\d:\d\d:\d\d)\s*$",
    ),
    #   traceback : Signal 9 (SIGKILL) received by PID 4245
    row(
        EventKind.SIGNAL,
        ") received by PID ",
        r"Signal (?P<signal>\d{1,3}) \(SIG[A-Z0-9]{2,10}\) received by PID (?P<pid>\d{1,10})",
    ),
    #   rank      : 2 (local_rank: 2)             torchelastic's "Root Cause (first observed failure)": the first to end
    row(
        EventKind.SIGNAL,
        "(local_rank: ",
        r"rank {1,20}: (?P<failed_rank>\d{1,7}) \(local_rank: (?P<local_rank>\d{1,7})\)",
    ),
    # W1121 … torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers
    row(EventKind.SIGNAL, "death signal", r"Received (?P<signal>\w{1,20}) death signal"),
    # srun: error: node7: task 13: Segmentation fault        srun: error: node7: tasks 8-12,14: Killed
    row(
        EventKind.SIGNAL,
        "srun: error:",
        r"srun: error: (?P<host>[\w.-]{1,255}): tasks? (?P<tasks>[\d,-]{1,2000}): (?P<what>[^\n]{1,200})",
    ),
    # torch.multiprocessing.spawn.ProcessExitedException: process 3 terminated with signal SIGKILL
    row(
        EventKind.SIGNAL,
        " terminated with signal SIG",
        r"process (?P<spawned>\d{1,7}) terminated with signal (?P<ended_by>SIG(?:KILL|SEGV|BUS|ILL|FPE))",
    ),
    # run.sh: line 12:  4242 Killed                  python train.py                                            bash
    row(
        EventKind.SIGNAL,
        ": line ",
        r": line \d{1,7}: {1,4}(?P<pid>\d{1,10}) (?P<shell>Killed|Segmentation fault|Bus error)\b",
    ),
    # [3]<stderr>:Killed                                                              the shell under horovodrun, mpirun
    row(
        EventKind.SIGNAL,
        "<stderr>:",
        r"^\[(?:\d{1,7},)?(?P<speaker>\d{1,7})\]<stderr>: ?"
        r"(?P<shell>Killed|Segmentation fault|Bus error)(?: \(core dumped\))?\s*$",
    ),
    # srun: error: Task launch for 4242.0 failed on node node7: Job credential expired
    row(
        EventKind.SIGNAL,
        "srun: error: Task launch for",
        r"Task launch for \S{1,40} failed on node (?P<host>[\w.-]{1,255}): (?P<what>[^\n]{1,200})",
    ),
    # srun: error: Node failure on node7
    row(EventKind.SIGNAL, "Node failure on", r"Node failure on (?P<host>[\w.-]{1,255})"),
    # mpirun noticed that process rank 1 with PID 4242 on node node7 exited on signal 9 (Killed).        Open MPI
    row(
        EventKind.SIGNAL,
        " noticed that process rank ",
        r"\b(?:mpirun|mpiexec|orterun|prterun) noticed that process rank (?P<ended_rank>\d{1,7}) "
        r"with PID (?P<ended_pid>\S{1,20}) on node (?P<died_on>[\w.:-]{1,255}) "
        r"exited on\s{1,4}signal (?P<signal>\d{1,3})\b",
    ),
    # [node7:4242] *** Process received signal ***                                          Open MPI, of its own process
    # [node7:4242] Signal: Segmentation fault (11)
    row(
        EventKind.SIGNAL,
        "*** Process received signal",
        r"^\[(?P<died_on>[\w.-]{1,255}):(?P<pid>\d{1,10})\] \*\*\* (?P<handled>Process received signal) \*\*\*",
    ),
    row(
        EventKind.SIGNAL,
        "] Signal: ",
        r"^\[(?P<died_on>[\w.-]{1,255}):(?P<pid>\d{1,10})\] Signal: [A-Z][\w ]{1,40} \((?P<signal>\d{1,2})\)",
    ),
    # [node7:4242:0:4242] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)         UCX
    # [node7:4242:0] Caught signal 11 (Segmentation fault: …                                                 older UCX
    row(
        EventKind.SIGNAL,
        "] Caught signal ",
        r"\[(?P<died_on>[\w.-]{1,255}):(?P<pid>\d{1,10}) {0,8}:\d{1,10}(?::\d{1,10})?\] (?P<handled>Caught signal) "
        r"(?P<signal>4|7|8|11) \(",
    ),
    # *** SIGSEGV (@0x8) received by PID 4242 (TID 0x7f00) from PID 8; stack trace: ***                  glog, Abseil
    row(
        EventKind.SIGNAL,
        "; stack trace: ***",
        r"\*\*\* (?P<handled>SIG(?:SEGV|BUS|ILL|FPE)) \(@[^\n]{1,120} received by PID (?P<pid>\d{1,10}) \(TID ",
    ),
    # =   PID 4242 RUNNING AT node7                       below "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"
    # =   EXIT CODE: 9                                            MPICH; in Intel MPI `KILLED BY SIGNAL: 9 (Killed)`
    # Not: =   EXIT CODE: 1
    row(
        EventKind.SIGNAL,
        " RUNNING AT ",
        r"PID (?P<pid>\d{1,10}) RUNNING AT (?P<died_on>\S{1,255})\n= {1,8}(?:EXIT CODE|KILLED BY SIGNAL): "
        r"(?P<signal>4|7|8|9|11|132|135|136|137|139)(?!\d)",
    ),
    # Process name: node7[0]                                              horovodrun over Gloo, host and local rank
    # Exit code: 137
    row(
        EventKind.SIGNAL,
        "Process name: ",
        r"Process name: (?P<horovodrun>[\w.-]{1,255})\[(?P<first_to_end>\d{1,7})\]\s{1,40}Exit code: {1,8}"
        r"(?P<status>\d{1,3})",
    ),
    #   Process name: [[4242,1],8]                  below "The first process to do so was:"
    #   Exit code:    3
    row(
        EventKind.SIGNAL,
        "Process name: [[",
        r"Process name: \[\[\d{1,10},\d{1,5}\],(?P<first_to_end>\d{1,7})\]\s{1,40}Exit code: {1,8}(?P<status>\d{1,3})",
    ),
    # MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD                                     Open MPI
    # application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3                                       MPICH, Intel MPI
    # mpiexec has exited due to process rank 3 with PID 4242 on node node7 exiting improperly.           Open MPI
    row(
        EventKind.SIGNAL, "MPI_ABORT was", r"(?P<left>MPI_ABORT) was invoked on rank (?P<first_to_end>\d{1,7}) in comm"
    ),
    row(
        EventKind.SIGNAL,
        "application called MPI_Abort",
        r"called (?P<left>MPI_Abort)\([^)\n]{1,60}\) - process (?P<first_to_end>\d{1,7})",
    ),
    row(
        EventKind.SIGNAL,
        " has exited due to process rank ",
        r"has exited due to process rank (?P<first_to_end>\d{1,7}) with PID \d{1,10} on\s{1,4}node "
        r"(?P<died_on>\S{1,255}) (?P<left>exiting improperly)",
    ),
    # [2026-11-21 09:10:11,123] [ERROR] [launch.py:434:sigkill_handler] ['/srv/venv/bin/python', '-u', 'train.py',
    #   '--local_rank=3', '--lr', '1e-4'] exits with return code = -9                                    DeepSpeed
    row(
        EventKind.SIGNAL,
        "] exits with return code = -",
        r"'--local_rank=(?P<local_rank>\d{1,7})'[^\n]{0,3900}\] exits with return code = (?P<exit_code>-\d{1,3})\b",
    ),
    # … torch/distributed/elastic/multiprocessing/api.py:900] Sending process 4242 closing signal SIGHUP
    # torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 1
    row(EventKind.SIGNAL, "closing signal SIGHUP", r"closing signal (?P<hangup>SIGHUP)"),
    row(EventKind.SIGNAL, "got signal: 1", r"SignalException: Process \d{1,10} got signal: (?P<hangup>1)\b"),
    # RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.
    # RuntimeError: DataLoader worker (pid(s) 4242, 4243) exited unexpectedly
    # Not: … is killed by signal: Terminated.        as whoever ends a job does
    row(
        EventKind.SIGNAL,
        "DataLoader worker (pid",
        r"DataLoader worker \(pid(?:\(s\))? (?P<loader>\d{1,10})[\d, ]{0,100}\) (?:is killed by signal: "
        r"(?P<loader_end>(?!Terminated|Hangup|Interrupt)\w[\w ]{0,40})|(?P<loader_left>exited unexpectedly))",
    ),
    #   namespace: 5d1c…                            of Ray's ActorDiedError
    #   ip: 10.1.2.3
    row(EventKind.SIGNAL, "namespace: ", r"^\s{0,8}namespace: [\w-]{1,100}\n\s{0,8}ip: \[?(?P<actor_on>[\d.]{7,15})\b"),
    #   pid: 4242
    #   name: ab12WorkerDict_0:3                    above these
    row(
        EventKind.SIGNAL,
        "pid: ",
        r"^\s{0,8}pid: (?P<actor_pid>\d{1,10})\n\s{0,8}name: (?P<actor>[\w:.-]{1,100})\s*(?:$|\n)",
    ),
    #   Remote daemon: [[4242,0],1] on node node7          below "ORTE has lost communication with a remote daemon."
    row(
        EventKind.SIGNAL,
        "Remote daemon",
        r"^ {0,4}(?P<launcher>Remote daemon) {0,2}: \[\S{1,200}\] on node (?P<host>[\w.:-]{1,255})\s*$",
    ),
    # The node with node id: 5d1c… and address: 10.1.2.3 and node name: … has been marked dead because the detector has
    #   missed too many heartbeats from it.                                       Ray; `ip:` to 2.0, `client ID` to 0.8
    row(
        EventKind.SIGNAL,
        " has been marked dead because ",
        r"The (?P<ray>node) with (?:node id: \w{1,80} and (?:address|ip):|client ID) (?P<host>[\w.:-]{1,80}) "
        r"[^\n]{0,200}has been marked dead because the (?:monitor|detector) ",
    ),
    # The actor is dead because its owner has died. … Owner Ip address: 10.1.2.3 Owner worker exit type: SYSTEM_ERROR
    #   Worker exit detail: Owner's node has crashed.                                                               Ray
    row(
        EventKind.SIGNAL,
        "Owner's node has crashed",
        r"Owner Ip address: (?P<host>[\w.:-]{1,64}) Owner worker exit type: [A-Z_]{1,40} Worker exit detail: "
        r"(?P<ray>Owner's node has crashed)",
    ),
    # … check the logs for the dead worker. … Worker IP address: 10.1.2.3 Worker port: 10004 Worker PID: 4242 Worker
    #   exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2.        Ray
    # Not: … Worker exit detail: Worker exits unexpectedly by a signal. … The process receives a SIGTERM.        it was
    #   asked to end, as workers are at the end of a run
    row(
        EventKind.SIGNAL,
        "Worker exit type: SYSTEM_ERROR",
        r"(?:Worker IP address: (?P<died_on>[\w.:-]{1,64}) Worker port: \d{1,9} Worker PID: (?P<pid>\d{1,10}) )?"
        r"Worker exit type: (?P<died>SYSTEM_ERROR)(?! Worker exit detail: [^\n]{0,200}\breceives a SIGTERM)",
    ),
    # … [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.        vLLM
    row(
        EventKind.SIGNAL,
        "died unexpectedly, shutting down",
        r"Worker proc (?P<worker>[\w-]{1,64}) (?P<died>died unexpectedly)",
    ),
    # … multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 4242 died, exit code: -9        vLLM to 0.7
    row(
        EventKind.SIGNAL,
        " died, exit code: ",
        r"Worker \w{1,64} pid (?P<pid>\d{1,10}) died, exit code: (?P<exit_code>-?\d{1,9})",
    ),
    # … set to ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout  JAX
    row(
        EventKind.SIGNAL,
        " heartbeat timeout",
        r"UNAVAILABLE: Task /job:\w{1,40}/replica:\d{1,7}/task:(?P<jax_task>\d{1,7}) heartbeat timeout",
    ),
    # Fatal Python error: Segmentation fault
    row(EventKind.SIGNAL, "Fatal Python error:", r"Fatal Python error: (?P<what>[^\n]{1,200})"),
    # terminate called after throwing an instance of 'c10::CUDAError'        what ends it is said on the next line
    row(EventKind.SIGNAL, "terminate called", r"terminate called[^\n]{0,120}c10::(?P<terminated>CUDAError)'"),
    # OSError: [Errno 28] No space left on device: '/scratch/ckpt'            … failed: No space left on device (28)
    row(EventKind.EXCEPTION, "No space left on device", r"(?P<type>No space left on device)"),
    # AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel …          Megatron
    row(EventKind.EXCEPTION, ": found NaN in ", r"[Rr]ank (?P<speaker>\d{1,7}): (?P<type>found NaN) in "),
)
