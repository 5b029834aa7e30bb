extern "C" int answer();
extern "C" int forwarded() { return answer(); }
