// The only function of this DLL that Rust's standard library calls.
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    const ULONG most = 1 << 28;
    for (SIZE_T done = 0; done < length;) {
        ULONG part = length - done < most ? (ULONG)(length - done) : most;
        if (!RtlGenRandom(bytes + done, part)) return FALSE;
        done += part;
    }
    return TRUE;
}
