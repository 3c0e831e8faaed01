// Of cuBLAS, cuSPARSE and cuSOLVER, whose wheels are large, the handles and results that PyTorch's headers name.
#pragma once
typedef struct cublasContext* cublasHandle_t;
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
