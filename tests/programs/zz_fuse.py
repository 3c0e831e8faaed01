"""Rank 2 touches a page of a mapped file that never comes."""
import sys; sys.path.insert(0,'/work/argv/tests/programs')
import mmap,os,ctypes,rig
TRUTH = {"kinds": ["rank_not_joined"], "causes": ["storage"], "busy": [0,1,2,3]}
MODE=os.environ["FUSE_MODE"]
def touch():
    with open('/tmp/fuse/shard','rb') as f: m=mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ)
    if MODE=='page': return m[0]
    if MODE=='read': return os.pread(os.open('/tmp/fuse/shard',os.O_RDONLY),100,0)
    # its command line lies on such a page: who reads it waits, while it sleeps
    libc=ctypes.CDLL(None,use_errno=True)
    libc.mmap.restype=ctypes.c_void_p; libc.mmap.argtypes=[ctypes.c_void_p,ctypes.c_size_t]+[ctypes.c_int]*3+[ctypes.c_long]
    fd=os.open('/tmp/fuse/shard',os.O_RDONLY); at=int(open('/proc/self/stat').read().rsplit(')',1)[1].split()[45])&~4095
    print('mapped',hex(at),libc.mmap(at,4096,1,2|16,fd,0),ctypes.get_errno(),flush=True)
    import time; time.sleep(3600)
def main():
    place=rig.start(); rig.train(place,touch)
if __name__=="__main__": main()
