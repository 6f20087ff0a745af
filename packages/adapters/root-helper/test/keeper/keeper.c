/* In the place of a VMM: takes connections on its first socket, and keeps all that is sent through them. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
  struct pollfd watched[8] = {{.fd = 3, .events = POLLIN}};
  int count = 1;
  write(2, "keeping\n", 8);
  for (;;) {
    if (poll(watched, count, -1) < 1) continue;
    for (int i = 1; i < count; i++) {
      char bytes[64], control[256];
      struct iovec vector = {bytes, sizeof bytes};
      struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
      if (watched[i].revents && recvmsg(watched[i].fd, &message, MSG_DONTWAIT) <= 0) watched[i].events = watched[i].fd = -1;
    }
    if (watched[0].revents && count < 8) {
      watched[count].fd = accept(3, 0, 0);
      watched[count++].events = POLLIN;
    }
  }
}
