// NCCL includes it, and uses none of it.
#pragma once
