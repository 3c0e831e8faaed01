// What the runtime's stand-in writes of a device, for each of its processes, into LAB_FOLDER/lab-gpu-DEVICE-PID.
#ifndef LAB_GPU_H
#define LAB_GPU_H

struct gpu_state {
    int pid;
    int computes; // a kernel of the program runs
    int spins;    // one of NCCL's waits for others
};

#endif
